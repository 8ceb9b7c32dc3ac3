import { type ConfigKey, fileKey, pathText, variablesOf } from "@diskmesh/service";
import { CONFIGS, configKeys, configOf } from "./services.js";

const FIRST_VERSION = "0.1.0";

const HEAD = `# Configuration

Made from the code by \`npm run configuration\`; do not edit it. \`deploy/examples/\` has a config of each service to begin with.

A service reads one file of YAML: \`diskmesh-director --config /etc/diskmesh/director.yaml\`, or the one that the variable
\`DISKMESH_CONFIG\` names. A key that it does not know is refused, with the key that was most likely meant.

- **\`--check-config FILE\`** says all that is wrong with a config at once, and looks into the certificates, keys and secrets that
  it names; exit code 0 when nothing is wrong, 78 else. It opens no store and no port. \`--help\` lists the variables below,
  \`--version\` says the version.
- **The environment** counts more than the file. Each key that is part of no list has a variable, which stands with it below.
  Its value is what would stand in the file: \`warn\`, \`7040\`, \`true\`, \`[a, b]\`, \`{ a: 1 }\`. A variable that begins like the
  service's and is none of its keys is refused, but for those that Kubernetes sets for a Service of that name.
- **Secrets** may stand in files of their own: a key marked _secret_ is also given as the same key with \`File\` behind it, which
  names the file, as in \`passwordFile: /run/secrets/password\`. A text is taken without the line break at its end, anything
  else is read as YAML. A file with a secret or a private key that everybody on the machine may read is warned of. Secrets
  are in no log line, error or answer of \`--check-config\`.
- **Paths** that do not begin with \`/\` are taken from the folder of the config file.
- **SIGHUP** has a running process read its config again. Keys marked _reloads_ are taken up at once; of the others that have
  changed the log says that they need a restart. A config that is wrong changes nothing, and the log says what is wrong
  with it. Certificates, keys, authorities and lists of revoked certificates are taken up whenever their files change.
- **Names**: a limit begins with \`max\` or \`min\`. Times end with \`Ms\` (milliseconds) or \`Days\`, sizes with \`Bytes\` or \`Mib\`.
  \`maxConcurrent\` is what goes on at once, \`maxWaiting\` what waits for its turn, \`maxKept\` what is remembered.

Behind each key stands what it takes, what it is when it is not given, and the version that had it first.
`;

interface Entry {
  readonly key: ConfigKey;
  /** Of a service with this prefix of variables. */
  readonly text: string;
}

/** docs/reference/configuration.md */
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
