"""Programs that show Narthex. `make demo` runs examples/demo.py."""
