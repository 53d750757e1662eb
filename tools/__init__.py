"""Programs for those who develop Trimtab; nothing here ships."""
