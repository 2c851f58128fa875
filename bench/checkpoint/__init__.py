"""What a checkpoint costs a rank, beside what else it could use: `holdfast bench checkpoint`."""
