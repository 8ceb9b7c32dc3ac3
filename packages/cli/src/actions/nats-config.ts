import { mkdir, readFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import { replaceFile } from "@diskmesh/atomic-file";
import { quoted } from "@diskmesh/domain";
import { type Action, type ActionCall, textOption } from "../action.js";
import { UsageError } from "../exit-codes.js";
import { folderOf, open } from "./pki.js";

/** Long beside what nats-server takes to read what it was told. */
const ONCE_MORE_MS = 1_000;

export const natsConfig: Action = {
  usage: "nats-config <folder>",
  summary: "write for nats-server whom it lets in, to which subjects, and with which servers it is a cluster",
  options: [
    ["--folder <folder>", "of `diskmesh pki` (pki)"],
    ["--installed-in <folder>", "where nats-server finds them, if they are copied to its machine (the folder itself)"],
    ["--pid-file <file>", "of a nats-server on this machine, which then reads it again; nobody loses a connection"],
  ],
  example: "diskmesh nats-config /etc/nats/diskmesh --folder pki --pid-file /run/nats-server.pid",
  run: async (call) => {
    const { isToldOnceMore, reloadServer, serverTlsFile } = await import("@diskmesh/mbus");
    const folder = targetOf(call);
    const pidFile = textOption(call.options, "pidFile");
    const first = await write(call, folder);
    if (pidFile !== "") await reloadServer(resolve(pidFile));
    const isOnceMore = isToldOnceMore(await readFile(serverTlsFile(folder), "utf8"));
    if (pidFile !== "" && isOnceMore) {
      await setTimeout(ONCE_MORE_MS);
      await write(call, folder);
      await reloadServer(resolve(pidFile));
    }
    const { changed, users } = first;
    const again = isOnceMore ? ", and both once more: it closes connections of keys that are left out then" : "";
    const told =
      pidFile === "" ? `; have nats-server read them again: nats-server --signal reload${again}` : ", and was told";
    const what = changed.length === 0 ? "nothing has changed" : `wrote ${changed.join(" ")}`;
    call.output.answer({ changed, users, told: pidFile !== "" }, `${what}: ${users} users${told}`);
  },
};

/** Copied to NATS servers as a whole, it must not be that with the keys. */
function targetOf({ args: [given = ""], options }: ActionCall): string {
  const folder = resolve(given);
  if (folder === folderOf(options))
    throw new UsageError(`${quoted(folder)} has the keys of everybody: give a folder for nats-server alone`);
  return folder;
}

async function write(
  call: ActionCall,
  folder: string,
): Promise<{ readonly changed: string[]; readonly users: number }> {
  const { serverClusterFile, serverTlsFile, serverUsersFiles } = await import("@diskmesh/mbus");
  const certificates = await open(call, false);
  const users = await certificates.natsUsers(Date.now());
  const servers = await certificates.natsServers(Date.now());
  await mkdir(folder, { recursive: true });
  const changed: string[] = [];
  const installedIn = resolve(textOption(call.options, "installedIn") || folder);
  const read = (file: string) => readFile(file, "utf8").catch(() => undefined);
  const files = [
    ...serverUsersFiles(installedIn, users, certificates.authorityPems, await read(serverTlsFile(folder))),
    serverClusterFile(installedIn, servers),
  ];
  for (const [installed, text] of files) {
    const file = join(folder, basename(installed));
    if (text !== (await read(file))) {
      await replaceFile(file, text, { mode: 0o644 });
      changed.push(file);
    }
  }
  return { changed, users: users.length };
}
