"""Speed, memory and accuracy of the engines, measured."""
