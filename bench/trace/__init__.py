"""What traces cost ranks, disks and who asks: `holdfast bench trace`."""
