"""The command line of chronocore: it parses, calls the library and prints."""

__all__: list[str] = []
