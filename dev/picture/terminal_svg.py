"""Turns a terminal screen with its colours (tmux capture-pane -e -p) into an SVG picture.

    tmux capture-pane -e -p > screen; python3 terminal_svg.py screen > picture.svg
"""

import re
import sys
from html import escape

CELL, LINE, SIZE = 8.4, 18, 14
BACK, TEXT = "#12161c", "#d8dee6"
COLOURS = ["#3b4252", "#e06c75", "#7fb069", "#e5b567", "#6cb6ff", "#c586c0", "#56b6c2", "#d8dee6"]
BRIGHT = ["#6b7686", "#ff7b85", "#98c379", "#f0c674", "#8cc8ff", "#d8a0df", "#7fd4df", "#ffffff"]
LEVELS = [0, 95, 135, 175, 215, 255]


def colour_256(number):
    if number < 16:
        return (COLOURS + BRIGHT)[number]
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return f"#{grey:02x}{grey:02x}{grey:02x}"
    number -= 16
    return "#%02x%02x%02x" % (LEVELS[number // 36], LEVELS[number // 6 % 6], LEVELS[number % 6])


def apply(style, codes):
    """The style after an SGR sequence."""
    codes = [int(code or 0) for code in codes.split(";")]
    while codes:
        code = codes.pop(0)
        if code == 0:
            style = {}
        elif code == 1:
            style = {**style, "bold": True}
        elif code == 2:
            style = {**style, "dim": True}
        elif code == 22:
            style = {key: value for key, value in style.items() if key not in ("bold", "dim")}
        elif 30 <= code <= 37:
            style = {**style, "fill": COLOURS[code - 30]}
        elif 90 <= code <= 97:
            style = {**style, "fill": BRIGHT[code - 90]}
        elif code == 39:
            style = {key: value for key, value in style.items() if key != "fill"}
        elif code in (38, 48) and codes[:1] == [5]:
            number = codes[1]
            codes = codes[2:]
            if code == 38:
                style = {**style, "fill": colour_256(number)}
    return style


def spans(line, style):
    """Pieces of a line, each with its column and style."""
    column, pieces = 0, []
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b["):
            style = apply(style, part[2:-1])
        elif part:
            pieces.append((column, part, style))
            column += len(part)
    return pieces, style


def main():
    lines = open(sys.argv[1], encoding="utf-8").read().rstrip("\n").split("\n")
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    width, height = max(map(len, plain)) * CELL + 40, len(lines) * LINE + 56
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">')
    print(f'<rect width="100%" height="100%" rx="10" fill="{BACK}"/>')
    for i, dot in enumerate(["#ff5f56", "#ffbd2e", "#27c93f"]):
        print(f'<circle cx="{22 + 20 * i}" cy="20" r="6" fill="{dot}"/>')
    print(f'<g font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="{SIZE}" xml:space="preserve">')
    style = {}
    for row, line in enumerate(lines):
        pieces, style = spans(line, style)
        # Words far apart are placed each by itself: readers of SVG disagree about runs of blanks.
        words = [
            (column + word.start(), word.group(), how)
            for column, text, how in pieces
            for word in re.finditer(r"\S+(?: \S+)*", text)
        ]
        for column, text, how in words:
            x, y = 20 + column * CELL, 52 + row * LINE
            weight = ' font-weight="bold"' if how.get("bold") else ""
            dim = ' opacity="0.6"' if how.get("dim") else ""
            fill = how.get("fill", TEXT)
            length = f' textLength="{len(text) * CELL:.1f}" lengthAdjust="spacingAndGlyphs"'
            print(f'<text x="{x:.1f}" y="{y}" fill="{fill}"{weight}{dim}{length}>{escape(text)}</text>')
    print("</g>\n</svg>")


main()
