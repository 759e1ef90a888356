// Renders the formulas, which are marked `\(...\)` or `\[...\]`.
for (const formula of document.querySelectorAll(".arithmatex")) {
  katex.render(formula.textContent.slice(2, -2), formula, {
    displayMode: formula.tagName === "DIV",
    throwOnError: false,
  });
}
