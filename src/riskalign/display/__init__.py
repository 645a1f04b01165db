"""How answers are shown to people: numbers, grades, tables and small pictures.

Everything that prints (`print(result)`, notebooks, the command line, the HTML report) says the
same words because it takes them from this folder. Nothing here computes a calibration error.
"""
