"""Pages and chunks of long lists."""
