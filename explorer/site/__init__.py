"""Sites of notebooks: static pages whose views step without a kernel and without a network."""
