"""Commands for writing a model, making data and looking after the machine."""
