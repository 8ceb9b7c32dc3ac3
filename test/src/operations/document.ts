/** A block of `sh` that a reader of the document types. */
export interface Step {
  /** Line in which the block begins. */
  readonly line: number;
  /** Heading above the block. */
  readonly section: string;
  /** Machines and script of each part, in the block's order. */
  readonly parts: readonly { readonly machines: readonly string[]; readonly script: string }[];
  /** Output that the document shows; undefined for none. */
  readonly expected: string | undefined;
}

const FENCE = /^( *)```(\w*)$/;
const ON = /^# on (.+)$/;

/** A block of `sh`, with the block of `text` that follows it. */
export interface TypedBlock {
  /** Line in which the block begins. */
  readonly line: number;
  readonly section: string;
  readonly content: string;
  readonly expected: string | undefined;
}

/** Returns the blocks of `sh` in a Markdown document. A following block of `text` is the expected output. */
export function typedBlocks(markdown: string): readonly TypedBlock[] {
  const blocks: TypedBlock[] = [];
  const lines = markdown.split("\n");
  let section = "";
  let mayBeExpected = false;
  for (let index = 0; index < lines.length; index++) {
    const text = lines[index] as string;
    if (/^#+ /.test(text)) section = text.replace(/^#+ /, "");
    const [, indent = "", language] = FENCE.exec(text) ?? [];
    if (language === undefined) {
      if (text.trim() !== "") mayBeExpected = false;
      continue;
    }
    const end = lines.findIndex((line, at) => at > index && line === `${indent}\`\`\``);
    if (end < 0) throw new Error(`line ${index + 1}: this block has no end`);
    const inside = lines.slice(index + 1, end).map((line) => line.slice(indent.length));
    const content = inside.join("\n");
    const last = blocks.at(-1);
    if (language === "sh") blocks.push({ line: index + 2, section, content, expected: undefined });
    else if (language === "text" && mayBeExpected && last) blocks[blocks.length - 1] = { ...last, expected: content };
    mayBeExpected = language === "sh";
    index = end;
  }
  return blocks;
}

/** Returns the steps of a Markdown document. Each part of a block begins with `# on MACHINE...`. */
export function stepsOf(markdown: string): readonly Step[] {
  return typedBlocks(markdown).map(({ line, section, content, expected }) => {
    return { line, section, parts: partsOf(content.split("\n"), line), expected };
  });
}

function partsOf(lines: readonly string[], firstLine: number): Step["parts"] {
  const parts: { machines: string[]; script: string }[] = [];
  for (const line of lines) {
    const machines = ON.exec(line)?.[1]?.split(" ");
    if (machines !== undefined) parts.push({ machines, script: "" });
    else {
      const part = parts.at(-1);
      if (part === undefined) throw new Error(`line ${firstLine}: a block of sh begins with \`# on MACHINE\``);
      part.script += `${line}\n`;
    }
  }
  return parts;
}

/**
 * Returns whether the output matches. `...` stands for any text, alone on a line for any lines, and spaces for any
 * number of spaces.
 */
export function isPrinted(expected: string, printed: string): boolean {
  const pattern = normal(expected)
    .split("\n")
    .map((line) => (line === "..." ? "(?:.*\n)*" : `${line.split("...").map(escaped).join(".*")}\n`))
    .join("");
  return new RegExp(`^${pattern}$`).test(`${normal(printed)}\n`);
}

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

const normal = (text: string): string =>
  text
    .trim()
    .split("\n")
    .map((line) => line.trim().replace(/\s+/g, " "))
    .join("\n");
