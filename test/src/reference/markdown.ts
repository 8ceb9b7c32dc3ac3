/** Formats a Markdown table like the formatter: every column is as wide as its widest cell. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((_, at) => Math.max(3, ...[head, ...rows].map((row) => (row[at] ?? "").length)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}

/** Returns the beginning of a generated page. */
export function pageHead(title: string, ...paragraphs: readonly string[]): string {
  return [`# ${title}`, "Made from the code by `npm run reference`; do not edit it.", ...paragraphs].join("\n\n");
}
