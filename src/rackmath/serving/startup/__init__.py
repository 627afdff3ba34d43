"""What an engine's memory holds once it has started: weights, working memory, graphs, and the cache that is left."""
