#!/usr/bin/env python3
"""Checks, by disassembly, which instructions stand where in the library.

    tests/check_instructions.py LIBRARY

The loops are compiled once for each instruction set. An AVX instruction in any
other function would crash a processor without AVX; a loop that the compiler
gave up vectorizing, or rows that nobody asks memory for ahead, would only be
slow: none of it fails another test. On ARM there is one instruction set, and
no instruction may multiply and add with a single rounding. Needs a library with
its symbols, and binutils' objdump for its processor.
"""

import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

TARGETS = ("baseline", "avx2", "avx512")

_FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_INSTRUCTION = re.compile(r"^ *[0-9a-f]+:\t(?:[a-z0-9]+ )*?(\S+)(.*)$")
# Instructions that begin with a v and are older than AVX.
_NOT_VEX = {"verr", "verw"}
_OF_TARGET = re.compile(
    r"(?:(?:void|auto|bool|tf_opt::Measure) )?tf_opt::(avx2|avx512|baseline)::"
)
_OF_AVX512 = re.compile(r"%zmm|%k[0-7]|%[xy]mm(1[6-9]|2\d|3[01])\b")
# What is compiled once for each instruction set, and must be vectorized: which
# instruction says that it is.
_LOOPS = {
    re.compile(
        r"::((Update|Coast)Block\(|(Transform|Accumulate|Average)Block<"
        "|MeasureRange<)"
    ): re.compile(r"^(vmulp[sd]|fmul)$"),
    re.compile("::SumRow<"): re.compile(r"^(vaddp[sd]|fadd)$"),
    re.compile("::RandomBlock::Fill"): re.compile("^(vpmulld|mul)$"),
    re.compile("::NarrowAtRandom<"): re.compile("^(vpaddd|add|uaddw)$"),
    re.compile("::StateBlock<float>::Widen"): re.compile("^(vpslld|shll2?)$"),
    re.compile("::Reconcile<"): re.compile("^(vp?cmp|fcm)"),
}
_WIDE = re.compile(r"%[yz]mm|\bv\d+\.(4s|2d)")
_ROOT = re.compile(r"^(v?sqrt[ps][sd]|fsqrt)$")
# What goes through rows in no order that a processor guesses.
_SCATTERED = re.compile(r"::UpdateOccurring\(")
_PACKED_ROOT = re.compile(r"^(vsqrtp[sd]|fsqrt)$")
_FUSED_ON_ARM = re.compile(r"^f(n?m(add|sub)|ml[as])$")


def is_for_arm(library: str) -> bool:
    """Whether the machine of the ELF file is aarch64."""
    with pathlib.Path(library).open("rb") as file:
        return file.read(20)[18:] == b"\xb7\0"


def functions(library: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Each function's name and instructions, as mnemonics and operands."""
    objdump = "aarch64-linux-gnu-objdump" if is_for_arm(library) else "objdump"
    command = [objdump, "-d", "-C", "--no-show-raw-insn", library]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True
    ) as process:
        name, instructions = "", []
        for line in process.stdout:
            if match := _FUNCTION.match(line):
                yield name, instructions
                name, instructions = match[1], []
            elif match := _INSTRUCTION.match(line.rstrip()):
                instructions.append((match[1], match[2]))
        yield name, instructions
    if process.returncode:
        sys.exit(f"objdump {library} failed")


def problems(library: str) -> Iterator[str]:
    """What is wrong, one line each."""
    arm = is_for_arm(library)
    loops = dict.fromkeys(TARGETS[:1] if arm else TARGETS, 0)
    for name, instructions in functions(library):
        match = _OF_TARGET.match(name)
        target = match[1] if match else "baseline"
        for mnemonic, operands in instructions:
            is_avx = mnemonic.startswith("v") and mnemonic not in _NOT_VEX
            is_avx512 = _OF_AVX512.search(operands) is not None
            if (
                (is_avx and target == "baseline")
                or (is_avx512 and target != "avx512")
                or _FUSED_ON_ARM.match(mnemonic)
            ):
                yield f"{mnemonic}{operands} in {name}, which is for {target}"
                break
        if _SCATTERED.search(name) and not any(
            mnemonic.startswith(("prefetch", "prfm"))
            for mnemonic, _ in instructions
        ):
            yield f"nothing is prefetched: {name}"
        packed = next((_LOOPS[x] for x in _LOOPS if x.search(name)), None)
        if not match or packed is None:
            continue
        loops[target] += 1
        if target == "baseline" and not arm:
            continue
        wide = {m for m, operands in instructions if _WIDE.search(operands)}
        if not any(map(packed.match, wide)):
            yield f"not vectorized: {name}"
        if any(_ROOT.match(m) for m, _ in instructions) and not any(
            map(_PACKED_ROOT.match, wide)
        ):
            yield f"the square root is not vectorized: {name}"
    if len(set(loops.values())) != 1 or 0 in loops.values():
        yield f"not the same loops for each instruction set: {loops}"
    else:
        print(f"{loops['baseline']} loops for each of {', '.join(loops)}")


def main() -> None:
    found = list(problems(sys.argv[1]))
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
