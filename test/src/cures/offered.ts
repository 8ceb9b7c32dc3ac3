import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { allActions } from "@diskmesh/cli";
import { repositoryFolder } from "../repository-folder.js";

/** A command that a text of the repository names. */
export interface Offered {
  /** File and line. */
  readonly place: string;
  /** Command line without `diskmesh`, with X for what the text fills in. */
  readonly words: string;
}

const SKIPPED = new Set(["node_modules", "dist", "bundle", "generated", "testing", "testkit"]);
const STRING = /\/\*[\s\S]*?\*\/|\/\/[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/g;
/** Part of a template. */
const HOLE = /\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}/g;
const RPC =
  /\b(?:Add|Adopt|Cancel|Confirm|Decide|Delete|Detach|Fence|Forget|List|Provide|Publish|Purge|Remove|Resume|Set|Unpublish)(?:[A-Z][a-z]+)+\b/g;
const KEY = /\b(?:agents|deployments|dynamicDisks|executables|http|rpc|stemcells|telemetry|tls|watch)(?:\.[a-z]\w+)+/g;
/** A command stands in backticks, behind a colon, or at the beginning of a string. */
const IN_CODE = /(^["'`]|\\?`|: |\()diskmesh ([a-z][^`"'\\;,:)\n]*)/g;
/** In pages, a command stands in backticks, or in a line of a block. */
const INLINE = /`diskmesh ([a-z][^`]*)`/g;
const BLOCK = /^ *```[\s\S]*?^ *```$/gm;
const IN_BLOCK = /(?:^\s*|npx |bin\/|[|&($] *)diskmesh ([a-z][^\n|>&;)]*)/gm;
/** Strings that begin like a command, but are formats, names and sentences. */
const NO_COMMANDS =
  /^(?:decides|did|has|reads|runs|tablet|event log|caller|identity|folder|development CA|agents CA|service|needs|is|for|does)\b/;

/** Returns the strings of packages and services, but not the examples of the command's own help. */
function stringsOfCode(): readonly { readonly place: string; readonly text: string }[] {
  return [...filesIn(["packages", "services"], /(?<!\.test)\.tsx?$/)].flatMap((file) => {
    const source = readFileSync(join(repositoryFolder, file), "utf8");
    return [...source.matchAll(STRING)]
      .filter(({ 0: string, index }) => !string.startsWith("/") && !/\bexample: $/.test(source.slice(0, index)))
      .map(({ 0: string, index }) => ({
        place: `${file}:${source.slice(0, index).split("\n").length}`,
        text: string.replace(HOLE, "X"),
      }));
  });
}

/** Returns the commands in the strings of packages and services. */
export function offeredByCode(): readonly Offered[] {
  return stringsOfCode().flatMap(({ place, text }) =>
    [...text.matchAll(IN_CODE)].flatMap(([, , words = ""]) =>
      NO_COMMANDS.test(words) ? [] : [{ place, words: words.trim() }],
    ),
  );
}

/** Returns the names that look like RPCs, and the names that look like config keys, in the sentences of the code. */
export function namedByCode(): Readonly<Record<"rpcs" | "keys", readonly Offered[]>> {
  const sentences = stringsOfCode().filter(({ text }) => /[a-z] [a-z]/.test(text));
  const all = (pattern: RegExp): Offered[] =>
    sentences.flatMap(({ place, text }) => [...text.matchAll(pattern)].map(([words]) => ({ place, words })));
  return { rpcs: all(RPC), keys: all(KEY) };
}

/** Returns the commands in the documentation and in the alerts. */
export function offeredByText(): readonly Offered[] {
  // The page of the command is made from the command's own table.
  const pages = [...filesIn(["docs", "deploy/monitoring"], /\.(?:md|yml)$/)].filter((file) => !/cli\.md$/.test(file));
  const files = [...pages, "README.md", "SECURITY.md"];
  return files.flatMap((file) => {
    const text = readFileSync(join(repositoryFolder, file), "utf8").replace(/\$\([^)]*\)/g, "X");
    const blocks = [...text.matchAll(BLOCK)].flatMap(([block]) => [...block.matchAll(IN_BLOCK)]);
    const inline = [...text.replace(BLOCK, "").matchAll(INLINE)];
    return [...blocks, ...inline].map(([, words = ""]) => ({ place: file, words: words.replace(/ +#.*/, "").trim() }));
  });
}

/** Returns the words with X for what a reader fills in. */
export const shapeOf = (words: string): string => words.replace(/\b[A-Z]+\b/g, "X");

function* filesIn(folders: readonly string[], name: RegExp): Generator<string> {
  for (const folder of folders)
    for (const entry of readdirSync(join(repositoryFolder, folder), { withFileTypes: true })) {
      const path = `${folder}/${entry.name}`;
      if (entry.isDirectory() && !SKIPPED.has(entry.name)) yield* filesIn([path], name);
      else if (name.test(entry.name)) yield path;
    }
}

const GLOBAL = ["--json", "-o, --output <format>", "--state <folder>", "--context <name>", "--sort <column>"];
const MORE_GLOBAL = ["-l, --selector <conditions>", "--help", "--version"];

/** Returns why the command would refuse the words; undefined when it would not. A name alone mentions an action. */
export async function whyRefused(words: string): Promise<string | undefined> {
  const [name = "", ...rest] = words.match(/"[^"]*"|'[^']*'|\S+/g) ?? [];
  if (name === "completion" || (rest.length === 0 && name.startsWith("-"))) return undefined;
  const action = (await allActions()).find(({ usage }) => usage.split(" ")[0] === name);
  if (action === undefined) return `there is no action ${name}`;
  const options = [...(action.options ?? []).map(([flags]) => flags), ...GLOBAL, ...MORE_GLOBAL];
  const args: string[] = [];
  for (let at = 0; at < rest.length; at++) {
    const [flag = "", value] = (rest[at] ?? "").split("=");
    if (!flag.startsWith("-")) args.push(flag);
    else {
      const known = options.find((flags) => flags.split(/[ ,]+/).includes(flag));
      if (known === undefined) return `${name} has no option ${flag}`;
      if (known.includes("<") && value === undefined && rest[++at] === undefined) return `${flag} has no value`;
    }
  }
  const wanted = action.usage.split(" ").slice(1);
  const least = wanted.filter((each) => each.startsWith("<")).length;
  const most = action.usage.includes("...") ? Number.POSITIVE_INFINITY : wanted.length;
  if (rest.length > 0 && (args.length < least || args.length > most)) return `${name} has ${action.usage}`;
  const [first = ""] = args;
  const isVerb = /^[<[](?:verb|kind|state)[>\]]/.test(wanted[0] ?? "") && first !== "" && first !== "X";
  const texts = [action.summary, ...options, action.example].join(" ");
  return isVerb && /^[a-z]/.test(first) && !texts.includes(first) ? `${name} has no ${first}` : undefined;
}
