"""torchair.configs: CompilerConfig."""
