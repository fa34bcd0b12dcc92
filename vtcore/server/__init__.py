"""The HTTP server: routes in one process, the engine in another. Needs the extra `serve`."""
