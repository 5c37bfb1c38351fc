"""torchair.core: logs and the engine behind the backend."""
