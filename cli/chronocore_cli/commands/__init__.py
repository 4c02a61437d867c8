"""One module a command; nothing heavy is imported before a command runs."""

__all__: list[str] = []
