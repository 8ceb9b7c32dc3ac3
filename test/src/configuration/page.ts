import { type ConfigKey, fileKey, pathText, variablesOf } from "@diskmesh/service";
import { CONFIGS, configKeys, configOf } from "./services.js";

const FIRST_VERSION = "0.1.0";

const HEAD = `# Configuration

Made from the code by \`npm run configuration\`; do not edit it. \`deploy/examples/\` has a config of each service to begin with.

A service reads one YAML file: \`diskmesh-director --config /etc/diskmesh/director.yaml\`, or the file that the variable
\`DISKMESH_CONFIG\` names. An unknown key is refused, with the key that was most likely meant.

- **\`--check-config FILE\`** reports everything that is wrong with a config at once, its certificates, keys and secrets included.
  On an agent's host it also says what SIGHUP, and what a restart, would change on the running agent.
  It opens no store and no port. The exit code is 0 when nothing is wrong, otherwise 78. \`--help\` lists the variables below.
- **The environment** counts more than the file. Each key outside a list has a variable, shown with the key below. Its value is
  what would stand in the file: \`warn\`, \`7040\`, \`true\`, \`[a, b]\`, \`{ a: 1 }\`. A variable with the service's prefix that is no
  key is refused, except those that Kubernetes sets for a Service of that name.
- **Secrets** may stand in files of their own. A key marked _secret_ also exists with \`File\` behind it, and names the file, as in
  \`passwordFile: /run/secrets/password\`. A text is read without the line break at its end, anything else as YAML. A file with a
  secret or a private key that everybody on the machine may read is warned of. Secrets are in no log line, error or answer.
- **Paths** that do not begin with \`/\` begin at the folder of the config file.
- **SIGHUP** makes a running process read its config again. Keys marked _reloads_ change at once; the log names changed keys that
  need a restart. A wrong config changes nothing, and the log says what is wrong. Certificates, keys, authorities and lists of
  revoked certificates are reloaded whenever their files change.
- **Names**: a limit begins with \`max\` or \`min\`. Times end with \`Ms\` (milliseconds) or \`Days\`, sizes with \`Bytes\` or \`Mib\`.
  \`maxConcurrent\` limits what runs at once, \`maxWaiting\` what waits, \`maxKept\` what is remembered.

Each key is followed by its type, its default, and the first version that has it.
`;

interface Entry {
  readonly key: ConfigKey;
  /** Markdown text of the key, in which `PREFIX_` stands for the service's prefix of environment variables. */
  readonly text: string;
}

/** Returns the text of docs/reference/configuration.md. */
export function configurationPage(): string {
  const services = new Map([...CONFIGS.keys()].map((service) => [service, entriesOf(service)] as const));
  const all = [...services.values()];
  const isShared = ({ text }: Entry): boolean => all.every((entries) => entries.some((other) => other.text === text));
  const shared = (all[0] ?? []).filter(isShared);
  const parts = [...services].map(([service, entries]) =>
    section(
      service,
      entries.filter((entry) => !isShared(entry)),
      service,
    ),
  );
  return [HEAD, section("Every service", shared, "SERVICE"), ...parts].join("\n");
}

function section(title: string, entries: readonly Entry[], service: string): string {
  const prefix = `DISKMESH_${service.replaceAll("-", "_").toUpperCase()}_`;
  return `## ${title}\n\n${entries.map(({ text }) => text.replaceAll("PREFIX_", prefix)).join("\n")}`;
}

function entriesOf(service: string): Entry[] {
  const variables = variablesOf(service, configOf(service));
  const prefixLength = `DISKMESH_${service}_`.length;
  return configKeys(service).map((key) => {
    const ofKey = variables.find(({ path }) => pathText(path) === pathText(key.path));
    return { key, text: entryText(key, ofKey && `PREFIX_${ofKey.name.slice(prefixLength)}`) };
  });
}

function entryText(key: ConfigKey, variable: string | undefined): string {
  const name = pathText(key.path);
  const { description = "", secret, reloads, since = FIRST_VERSION } = key.facts;
  const inFile = fileKey(key);
  const facts = [
    key.isGroup ? "mapping" : [key.type, key.unit].filter((part) => part !== "").join(", in "),
    defaultText(key),
    ...(secret === undefined ? [] : [`_secret_, also \`${inFile?.at(-1)}\``]),
    ...(reloads ? ["_reloads_"] : []),
    since,
  ];
  const lines = [`- **\`${name}\`** (${facts.join("; ")})`, `  ${description}`];
  if (variable !== undefined) lines.push(`  \`${variable}\``);
  return `${lines.join("\n")}\n`;
}

function defaultText({ isGroup, isRequired, defaultValue }: ConfigKey): string {
  if (isRequired) return "needed";
  if (isGroup || defaultValue === undefined) return "may be left out";
  return `default \`${JSON.stringify(defaultValue)}\``;
}
