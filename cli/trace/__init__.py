"""The commands of `holdfast trace`: what ranks did when, listed, asked by SQL, and exported."""
