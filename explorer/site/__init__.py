"""Sites of notebooks: static pages whose views work without a kernel or a network."""
