"""What pictures of 12,288 ranks cost a browser: `holdfast bench page`."""
