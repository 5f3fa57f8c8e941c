"""Raw formats to documents, documents to words, words to counts."""
