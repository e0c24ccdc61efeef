"""What all targets share whose work-items are threads of a GPU, whatever their code is written in."""
