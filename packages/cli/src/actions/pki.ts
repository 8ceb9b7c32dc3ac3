import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { formatIdentity, messageOf, quoted } from "@diskmesh/domain";
import type { MeshCertificates } from "@diskmesh/pki";
import { refuseOpenKey } from "../mesh/trusted-files.js";
import { UsageError } from "../output/exit-codes.js";
import { timeText } from "../output/output.js";
import { countOf } from "../output/values.js";
import { type Action, type ActionCall, textOption } from "./action.js";

const VALID_DAYS = 365;
const MAX_VALID_DAYS = 3_650;
const DAY_MS = 86_400_000;

type Verb = (call: ActionCall, names: readonly string[]) => Promise<void>;

const VERBS: Readonly<Record<string, Verb>> = {
  make: (call, names) => make(call, names, false),
  renew: (call, names) => make(call, names, true),
  list,
  revoke,
  "host-authority": async (call, names) => {
    none(names);
    await (await open(call, false)).makeHostAuthority();
    const files = join(folderOf(call.options), "hosts", "hosts-ca*.pem");
    say(call, `the authority of joined hosts is in ${files}: copy both files to the machine of each registry`);
  },
  "replace-authority": async (call, names) => {
    none(names);
    await (await open(call, false)).replaceAuthority();
    say(call, "the new authority signs from now on: copy ca.pem to all machines, then run `diskmesh pki make`");
  },
  "forget-authority": async (call, names) => {
    none(names);
    await (await open(call, false)).forgetFormerAuthority();
    say(call, "one authority is trusted from now on: copy ca.pem to all machines");
  },
};

export const pki: Action = {
  usage: "pki <verb> [names...]",
  summary: `manage the certificates of a mesh, from a list of holders; verbs: ${Object.keys(VERBS).join(", ")}`,
  options: [
    [
      "--folder <folder>",
      "folder of the authority and its certificates (pki); keep it safe, and copy files to the hosts",
    ],
    ["--list <file>", "holders, a line each: ROLE or ROLE/NAME, then its DNS names and addresses (FOLDER/mesh.list)"],
    [
      "--days <count>",
      `lifetime of certificates (${VALID_DAYS}); \`make\` renews certificates with less than a third left`,
    ],
    ["--new-keys", "also renew keys; new keys of NATS servers need `diskmesh nats-config` first"],
  ],
  example: "diskmesh pki make --folder pki --list mesh.list",
  isOpenEnded: true,
  run: async (call) => {
    const [verb = "", ...names] = call.args;
    const run = Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined;
    if (run === undefined) throw new UsageError(`${quoted(verb)} is none of ${Object.keys(VERBS).join(", ")}`);
    await run(call, names);
  },
};

/**
 * Opens the certificate authority's folder. The module is imported on use, because most actions need no cryptography.
 */
export async function open({ options }: Pick<ActionCall, "options">, makes: boolean): Promise<MeshCertificates> {
  const { MeshCertificates } = await import("@diskmesh/pki");
  const folder = folderOf(options);
  refuseOpenKey(join(folder, "ca-key.pem"));
  return MeshCertificates.open(folder, { makes });
}

export function folderOf(options: ActionCall["options"]): string {
  return resolve(textOption(options, "folder") || "pki");
}

async function make(call: ActionCall, names: readonly string[], all: boolean): Promise<void> {
  const { options, output } = call;
  const validDays = countOf("--days", textOption(options, "days") || String(VALID_DAYS), MAX_VALID_DAYS);
  const { parseHolders } = await import("@diskmesh/pki");
  const file = resolve(textOption(options, "list") || join(folderOf(options), "mesh.list"));
  const text = await readFile(file, "utf8").catch((error: unknown) => {
    throw new UsageError(`cannot read the list of holders ${quoted(file)}: ${messageOf(error)}`);
  });
  const holders = parseHolders(text, file);
  const missing = names.find((name) => !holders.some((holder) => holder.name === name));
  if (missing !== undefined)
    throw new UsageError(`${quoted(missing)} is not in ${file}: \`diskmesh pki list\` has names`);
  const meant = holders.filter(({ name }) => names.length === 0 || names.includes(name));
  const done = await (await open(call, true)).make(meant, { validDays, all, newKeys: options.newKeys === true });
  const rows = [...done].map(([name, what]) => ({ name, what }));
  output.list({ name: ({ name }) => name, what: ({ what }) => what }, rows, "the list is empty");
}

async function list(call: ActionCall, names: readonly string[]): Promise<void> {
  none(names);
  const held = (await (await open(call, false)).list()).map(({ name, identity, certificate, isCurrent }) => ({
    name,
    identity: formatIdentity(identity),
    serialNumber: certificate.serialNumber,
    endsAt: timeText(new Date(certificate.validTo)),
    daysLeft: Math.floor((Date.parse(certificate.validTo) - Date.now()) / DAY_MS),
    authority: isCurrent ? "signs" : "former",
  }));
  call.output.list(
    {
      name: ({ name }) => name,
      of: ({ identity }) => identity,
      serial: ({ serialNumber }) => serialNumber,
      ends: ({ endsAt }) => endsAt,
      days: ({ daysLeft }) => daysLeft,
      authority: ({ authority }) => authority,
    },
    held,
    "there are no certificates",
  );
}

async function revoke(call: ActionCall, names: readonly string[]): Promise<void> {
  if (names.length === 0) throw new UsageError("no names are given: give the names that `diskmesh pki list` shows");
  const certificates = await open(call, false);
  const revoked: Record<string, readonly string[]> = {};
  for (const name of names) revoked[name] = await certificates.revoke(name, Date.now());
  const count = Object.values(revoked).flat().length;
  const rest = "copy the file `revoked` to each tls.revokedFile";
  call.output.answer({ revoked }, `revoked ${count} certificates of ${names.join(" ")}: ${rest}`);
}

function none(names: readonly string[]): void {
  if (names.length > 0) throw new UsageError("the verb takes no names");
}

function say({ output }: ActionCall, text: string): void {
  output.answer({ done: true }, text);
}
