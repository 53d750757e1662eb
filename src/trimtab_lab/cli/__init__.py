"""The commands of `trimtab lab`."""
