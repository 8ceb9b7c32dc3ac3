import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Failure, runQuietly } from "./run.mjs";
import { protoFiles, sourceFiles } from "./source-files.mjs";

const GIT_TIMEOUT_MS = 60_000;
/** A comment that opens with one of these words has no subject. */
const OPENING = /^(?:What|Of|By|Who|Whose|Whoever|Whether|For|Until|As)\b/;
const LATEST_COMMITS = 20;
const SUBJECT = /^[a-z0-9/, .-]+: \S/;
/** Second names of areas. */
const OTHER_NAMES = { agent: "disk-agent", registry: "disk-registry", dispatcher: "cpi-dispatcher", tests: "test" };
const MAX_SUBJECT_LENGTH = 72;

/**
 * Throws a Failure when a comment opens with a forbidden word, or when one of the latest commits has a malformed
 * subject.
 */
export async function checkWords(root) {
  const files = [...sourceFiles(root), ...protoFiles(root)];
  const faults = [...files.flatMap((file) => commentFaults(root, file)), ...(await commitFaults(root))];
  if (faults.length > 0) throw new Failure(`${faults.join("\n")}\nCONTRIBUTING.md says how comments and commits begin`);
}

function commentFaults(root, file) {
  const lines = readFileSync(join(root, file), "utf8").split("\n");
  return lines.flatMap((line, index) => {
    const text = firstWords(line, lines[index - 1] ?? "");
    return OPENING.test(text) ? [`${file}:${index + 1}: a comment begins with "${text.split(" ", 1)[0]}"`] : [];
  });
}

/** Returns the line's text when a comment begins in it; otherwise an empty text. */
function firstWords(line, lineBefore) {
  const text = line.trim();
  if (text.startsWith("/**")) return text.slice(3).trim();
  if (text.startsWith("//")) return lineBefore.trim().startsWith("//") ? "" : text.slice(2).trim();
  return lineBefore.trim() === "/**" ? text.replace(/^\*\s*/, "") : "";
}

async function commitFaults(root) {
  const args = ["log", "--no-merges", `--max-count=${LATEST_COMMITS}`, "--format=%h %s"];
  const log = await runQuietly("git", args, { cwd: root, timeoutMs: GIT_TIMEOUT_MS }).catch(() => "");
  return log
    .split("\n")
    .filter((line) => line !== "")
    .flatMap((line) => {
      const subject = line.slice(line.indexOf(" ") + 1);
      const name = OTHER_NAMES[subject.split(":", 1)[0]];
      if (name !== undefined) return [`commit ${line}: its area has the name ${name}`];
      if (SUBJECT.test(subject) && subject.length <= MAX_SUBJECT_LENGTH) return [];
      return [`commit ${line}: its subject is not "area: imperative what" of at most ${MAX_SUBJECT_LENGTH} characters`];
    });
}
