import { type ConfigKey, fileKey, pathText } from "@diskmesh/service";
import { CONFIGS, configKeys } from "./services.js";

const FIRST_VERSION = "0.1.0";

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

Each key is followed by its type, its default, and the first version that has it.
`;

/** Returns the text of docs/reference/configuration.md. */
export function configurationPage(): string {
  const services = new Map(
    [...CONFIGS.keys()].map((service) => [service, configKeys(service).map(entryText)] as const),
  );
  const all = [...services.values()];
  const isShared = (text: string): boolean => all.every((texts) => texts.includes(text));
  const shared = (all[0] ?? []).filter(isShared);
  const parts = [...services].map(([service, texts]) =>
    section(
      service,
      texts.filter((text) => !isShared(text)),
    ),
  );
  return [HEAD, section("Every service", shared), ...parts].join("\n");
}

function section(title: string, texts: readonly string[]): string {
  return `## ${title}\n\n${texts.join("\n")}`;
}

function entryText(key: ConfigKey): string {
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
  return `- **\`${name}\`** (${facts.join("; ")})\n  ${description}\n`;
}

function defaultText({ isGroup, isRequired, defaultValue }: ConfigKey): string {
  if (isRequired) return "needed";
  if (isGroup || defaultValue === undefined) return "may be left out";
  return `default \`${JSON.stringify(defaultValue)}\``;
}
