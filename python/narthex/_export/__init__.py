"""torch._export: what runtimes ask of an exported program."""
