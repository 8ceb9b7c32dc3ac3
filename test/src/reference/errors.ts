import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { repositoryFolder } from "../repository-folder.js";
import { CURES } from "./cures.js";
import { pageHead, table } from "./markdown.js";

const HEAD = pageHead(
  "Errors",
  `An error over gRPC carries \`google.rpc.ErrorInfo\` with the domain \`diskmesh\`, a reason from this page, and in its metadata what the error is
about (\`host_id\`, \`leader_address\` and so on). \`google.rpc.RetryInfo\` says when to try again, where the server knows. Over HTTPS, routes of
BOSH answer BOSH's codes. A task that fails keeps the reason of its error.`,
  `**Retry** says whether the same request may succeed later without anybody changing it. **Effect** says what is known of what was asked for.`,
);

const ACTIONS = `## Action codes

\`AddHost\`, \`RemoveHost\`, \`AddDevice\` and the other actions of the registry answer an \`ActionResult\`, whose code is no error:`;

interface ErrorClass {
  readonly name: string;
  readonly parent: string;
  /** The cause in its doc comment. */
  readonly cause: string;
  readonly reason: string;
  readonly retryable: boolean | undefined;
  readonly outcome: string | undefined;
}

/** docs/reference/errors.md */
export function errorsPage(): string {
  const classes = errorClasses();
  const codes = statusCodes();
  const sections = [...classes.values()].map((each) => {
    const code = inherited(classes, each, ({ name }) => codes.get(name)) ?? "UNKNOWN";
    const retryable = inherited(classes, each, (one) => one.retryable) ?? false;
    const outcome = inherited(classes, each, (one) => one.outcome) ?? "not_done";
    const cure = CURES[each.reason];
    if (cure === undefined) throw new Error(`test/src/reference/cures.ts says no cure of ${each.reason}`);
    const facts = `Status ${code}. Retry: ${retryable ? "yes" : "no"}. Effect: ${outcome === "unknown" ? "unknown" : "nothing was done"}.`;
    return `## ${each.reason}\n\n${each.cause}\n\n${facts}\n\n**Cure.** ${cure}`;
  });
  const actions = table(
    ["code", "meaning"],
    actionCodes().map(([code, meaning]) => [`\`${code}\``, meaning]),
  );
  return `${[HEAD, ...sections, ACTIONS, actions].join("\n\n")}\n`;
}

/** The classes of the code whose reasons callers see, in the order of their files. */
function errorClasses(): ReadonlyMap<string, ErrorClass> {
  const found = new Map<string, ErrorClass>();
  for (const text of sources())
    for (const [, comment = "", name = "", parent = "", body = ""] of text.matchAll(
      /\/\*\*((?:(?!\*\/).)*)\*\/\n(?:export )?(?:abstract )?class (\w+Error) extends (\w+) \{\n(.*?)\n\}/gs,
    )) {
      const reason = /override readonly reason(?:: string)? = "([A-Z_]+)"/.exec(body)?.[1];
      if (reason === undefined || reason === "CONFIG") continue;
      const cause = comment
        .replace(/^\s*\*/gm, "")
        .replace(/\s+/g, " ")
        .trim();
      const retryable = /override readonly retryable(?:: boolean)? = (true|false)/.exec(body)?.[1];
      const outcome = /override readonly outcome = "(\w+)"/.exec(body)?.[1];
      const known = { name, parent, cause, reason, outcome };
      found.set(name, { ...known, retryable: retryable === undefined ? undefined : retryable === "true" });
    }
  return found;
}

function inherited<Value>(
  classes: ReadonlyMap<string, ErrorClass>,
  { name, parent }: ErrorClass,
  read: (each: ErrorClass) => Value | undefined,
): Value | undefined {
  const own = read(classes.get(name) as ErrorClass);
  const above = classes.get(parent);
  return own ?? (above && inherited(classes, above, read));
}

function statusCodes(): ReadonlyMap<string, string> {
  const text = readFileSync(join(repositoryFolder, "packages/rpc/src/errors/status-of-error.ts"), "utf8");
  return new Map([...text.matchAll(/\[(\w+Error), status\.(\w+)\]/g)].map(([, name = "", code = ""]) => [name, code]));
}

function actionCodes(): readonly (readonly [string, string])[] {
  const text = readFileSync(join(repositoryFolder, "proto/diskmesh/registry/v1/types.proto"), "utf8");
  const [, body = ""] = /enum ActionCode \{(.*?)\n\}/s.exec(text) ?? [];
  const values = [...body.matchAll(/\/\/ (.*)\n\s+ACTION_CODE_(\w+) = [1-9]/g)];
  return values.map(([, meaning = "", code = ""]) => [code, meaning]);
}

function sources(): readonly string[] {
  const others = ["packages", "services"].flatMap((kind) =>
    readdirSync(join(repositoryFolder, kind)).map((name) => `${kind}/${name}`),
  );
  // The classes that others extend come first.
  const folders = [...new Set(["packages/domain", ...others])].map((name) => join(repositoryFolder, name, "src"));
  return folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts") && !/\.test\.ts$|testing\/|generated\//.test(name))
      .sort()
      .map((name) => readFileSync(join(folder, name), "utf8")),
  );
}
