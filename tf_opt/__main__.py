"""Command `python -m tf_opt`: prints versions and the kernels that run."""

from tf_opt.python.build_info import build_info


def main() -> None:
    """Prints `build_info()`, one entry per line."""
    info = build_info()
    width = max(map(len, info))
    for key, value in info.items():
        print(f"{key:<{width}}  {value}")


if __name__ == "__main__":
    main()
