const COLUMNS = 124;
const CHARACTER_WIDTH = 8.4;
const LINE_HEIGHT = 19;
const MARGIN = 18;
const ESCAPE = "\u001b[";
const CLASSES: Readonly<Record<string, string>> = {
  "31": "bad",
  "32": "good",
  "33": "changing",
  "1": "strong",
  "2": "soft",
};

interface Piece {
  readonly text: string;
  /** CSS class of the text; empty for none. */
  readonly style: string;
}

/** Draws a command and its output as SVG, whose text can be searched and copied. */
export function terminalPicture(
  title: string,
  typed: readonly (readonly [command: string, printed: string])[],
): string {
  const lines = typed.flatMap(([command, printed], index) => [
    ...(index > 0 ? [[]] : []),
    [
      { text: "$ ", style: "soft" },
      { text: command, style: "strong" },
    ],
    ...printed
      .trimEnd()
      .split("\n")
      .flatMap((line) => wrapped(piecesOf(line))),
  ]);
  const width = Math.round(COLUMNS * CHARACTER_WIDTH + 2 * MARGIN);
  const height = lines.length * LINE_HEIGHT + 2 * MARGIN;
  const texts = lines.map((pieces, index) => {
    const y = MARGIN + (index + 1) * LINE_HEIGHT - 5;
    return `  <text x="${MARGIN}" y="${y}">${pieces.map(spanOf).join("")}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">
  <title>${escaped(title)}</title>
  <style>
    rect { fill: #1c1f23 }
    text { fill: #e6e4df; font: 14px ui-monospace, "SF Mono", "DejaVu Sans Mono", Menlo, monospace; white-space: pre }
    .strong { font-weight: 600 }
    .soft { fill: #a3a29c }
    .good { fill: #59b39f }
    .changing { fill: #e0b04a }
    .bad { fill: #f0836a }
  </style>
  <rect width="${width}" height="${height}" rx="8"/>
${texts.join("\n")}
</svg>
`;
}

function piecesOf(line: string): Piece[] {
  let style = "";
  return line.split(ESCAPE).flatMap((part, index) => {
    const [, code, text = ""] = index === 0 ? ["", "", part] : (/^([\d;]*)m(.*)$/.exec(part) ?? ["", "", part]);
    if (index > 0) style = CLASSES[code ?? ""] ?? "";
    return text === "" ? [] : [{ text, style }];
  });
}

/** Breaks the text into lines of the terminal's width. */
function wrapped(pieces: readonly Piece[]): Piece[][] {
  const lines: Piece[][] = [[]];
  let left = COLUMNS;
  for (const { text, style } of pieces)
    for (let rest = text; rest !== ""; ) {
      if (left === 0) {
        lines.push([]);
        left = COLUMNS;
      }
      const fits = rest.length <= left ? rest.length : breakIn(rest, left);
      lines.at(-1)?.push({ text: rest.slice(0, fits), style });
      left = rest.length <= left ? left - fits : 0;
      rest = rest.slice(fits);
    }
  return lines;
}

/** Returns the position behind the last space that fits. */
function breakIn(text: string, left: number): number {
  return text.lastIndexOf(" ", left) + 1 || left;
}

function spanOf({ text, style }: Piece): string {
  return style === "" ? escaped(text) : `<tspan class="${style}">${escaped(text)}</tspan>`;
}

function escaped(text: string): string {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}
