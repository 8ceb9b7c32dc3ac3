import { mkdir, readFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { replaceFile } from "@diskmesh/atomic-file";
import { type Action, textOption } from "../action.js";
import { open } from "./pki.js";

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
    const { serverClusterFile, serverUsersFiles, reloadServer } = await import("@diskmesh/mbus");
    const folder = resolve(call.args[0] ?? "");
    const certificates = await open(call, false);
    const users = await certificates.natsUsers(Date.now());
    const servers = await certificates.natsServers(Date.now());
    await mkdir(folder, { recursive: true });
    const changed: string[] = [];
    const installedIn = resolve(textOption(call.options, "installedIn") || folder);
    const files = [
      ...serverUsersFiles(installedIn, users, certificates.authorityPems),
      serverClusterFile(installedIn, servers),
    ];
    for (const [installed, text] of files) {
      const file = join(folder, basename(installed));
      if (text !== (await readFile(file, "utf8").catch(() => undefined))) {
        await replaceFile(file, text, { mode: 0o644 });
        changed.push(file);
      }
    }
    const pidFile = textOption(call.options, "pidFile");
    if (pidFile !== "") await reloadServer(resolve(pidFile));
    const told = pidFile === "" ? "; have nats-server read them again: nats-server --signal reload" : ", and was told";
    const what = changed.length === 0 ? "nothing has changed" : `wrote ${changed.join(" ")}`;
    call.output.answer({ changed, users: users.length, told: pidFile !== "" }, `${what}: ${users.length} users${told}`);
  },
};
