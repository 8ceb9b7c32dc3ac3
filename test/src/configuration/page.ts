import { type ConfigKey, fileKey, pathText } from "@diskmesh/service";
import { CONFIGS, configKeys } from "./services.js";

const HEAD = `# Configuration

Made from the code by \`npm run configuration\`; do not edit it. \`deploy/examples/\` has a config of each service to begin with.

A service reads one YAML file: \`diskmesh-director --config /etc/diskmesh/director.yaml\`, or the file that the variable
\`DISKMESH_CONFIG\` names. An unknown key is refused, with the key that was most likely meant.

- **\`--check-config FILE\`** reports everything that is wrong with a config at once, its certificates, keys and secrets included.
  On an agent's host it also says what SIGHUP, and what a restart, would change on the running agent.
  It opens no store and no port. The exit code is 0 when nothing is wrong, otherwise 78.
- **Secrets** may stand in files of their own. A key marked _secret_ also exists with \`File\` behind it, and names the file, as in
  \`passwordFile: /run/secrets/password\`. A text is read without the line break at its end, anything else as YAML. A file with a
  secret or a private key that everybody on the machine may read is warned of. Secrets are in no log line, error or answer.
- **Paths** that do not begin with \`/\` begin at the folder of the config file.
- **SIGHUP** makes a running process read its config again. Keys marked _reloads_ change at once; the log names changed keys that
  need a restart. A wrong config changes nothing, and the log says what is wrong. Certificates, keys, authorities and lists of
  revoked certificates are reloaded whenever their files change.
- **Names**: a limit begins with \`max\` or \`min\`. Times end with \`Ms\` (milliseconds) or \`Days\`, sizes with \`Bytes\` or \`Mib\`.
  \`maxConcurrent\` limits what runs at once, \`maxWaiting\` what waits, \`maxKept\` what is remembered.

Each key is followed by its type and its default. A key that several services have is described once, under their names.
`;

/** Returns the text of docs/reference/configuration.md. A key that several services have is described once. */
export function configurationPage(): string {
  const servicesOf = new Map<string, string[]>();
  for (const service of CONFIGS.keys())
    for (const text of entriesOf(service)) servicesOf.set(text, [...(servicesOf.get(text) ?? []), service]);
  const textsOf = new Map<string, string[]>();
  for (const [text, services] of servicesOf) {
    const title = services.length === CONFIGS.size ? "Every service" : sentenceOf(services);
    textsOf.set(title, [...(textsOf.get(title) ?? []), text]);
  }
  const parts = [...textsOf].sort(([a], [b]) => rank(a) - rank(b)).map(([title, texts]) => section(title, texts));
  return [HEAD, ...parts].join("\n");
}

/** Returns the entries of a service's config. A group such as `nats.tls`, which has the keys of `tls`, refers to it. */
function entriesOf(service: string): string[] {
  const keys = configKeys(service);
  const groups = keys.filter(({ isGroup }) => isGroup);
  const pieces = new Map(groups.map((group) => [pathText(group.path), pieceLike(keys, group)]));
  const isDescribed = ({ path }: ConfigKey): boolean => pieces.get(pathText(path.slice(0, -1))) === undefined;
  return keys.filter(isDescribed).map((key) => {
    const piece = pieces.get(pathText(key.path));
    return entryText(key, piece && ` It has the keys of \`${piece}\`.`);
  });
}

/** Returns the name of the piece that has the same keys as a group elsewhere. */
function pieceLike(keys: readonly ConfigKey[], { path }: ConfigKey): string | undefined {
  const text = textBelow(keys, path);
  const isPiece = (name: string): boolean => textBelow(configKeys("director"), [name]) === text;
  return ["tls", "listen"].find((name) => name !== pathText(path) && isPiece(name));
}

const textBelow = (keys: readonly ConfigKey[], above: readonly string[]): string =>
  keys
    .filter(({ path }) => pathText(path.slice(0, -1)) === pathText(above))
    .map((key) => entryText({ ...key, path: key.path.slice(-1) }))
    .join("");

const sentenceOf = (services: readonly string[]): string => services.join(", ").replace(/, ([^,]*)$/, " and $1");

/** Places the keys of many services before those of one. */
const rank = (title: string): number => (title === "Every service" ? 0 : title.includes(" and ") ? 1 : 2);

function section(title: string, texts: readonly string[]): string {
  return `## ${title}\n\n${texts.join("\n")}`;
}

function entryText(key: ConfigKey, more = ""): string {
  const name = pathText(key.path);
  const { description = "", secret, reloads } = key.facts;
  const inFile = fileKey(key);
  const facts = [
    key.isGroup ? "mapping" : [key.type, key.unit].filter((part) => part !== "").join(", in "),
    defaultText(key),
    ...(secret === undefined ? [] : [`_secret_, also \`${inFile?.at(-1)}\``]),
    ...(reloads ? ["_reloads_"] : []),
  ];
  return `- **\`${name}\`** (${facts.join("; ")})\n  ${description}${more}\n`;
}

function defaultText({ isGroup, isRequired, defaultValue }: ConfigKey): string {
  if (isRequired) return "needed";
  if (isGroup || defaultValue === undefined) return "may be left out";
  return `default \`${JSON.stringify(defaultValue)}\``;
}
