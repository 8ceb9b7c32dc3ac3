import { mkdir, readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { replaceFile } from "@diskmesh/atomic-file";
import { type Action, textOption } from "../action.js";
import { open } from "./pki.js";

export const natsConfig: Action = {
  usage: "nats-config <folder>",
  summary: "write for nats-server whom it lets in and to which subjects: directors and agents of `diskmesh pki`",
  options: [
    ["--folder <folder>", "of `diskmesh pki` (pki)"],
    ["--pid-file <file>", "of a nats-server on this machine, which then reads it again; nobody loses a connection"],
  ],
  example: "diskmesh nats-config /etc/nats/diskmesh --folder pki --pid-file /run/nats-server.pid",
  run: async (call) => {
    const { serverUsersFiles, reloadServer } = await import("@diskmesh/mbus");
    const folder = resolve(call.args[0] ?? "");
    const certificates = await open(call, false);
    const users = await certificates.natsUsers(Date.now());
    await mkdir(folder, { recursive: true });
    const changed: string[] = [];
    for (const [file, text] of serverUsersFiles(folder, users, certificates.authorityPems))
      if (text !== (await readFile(file, "utf8").catch(() => undefined))) {
        await replaceFile(file, text, { mode: 0o644 });
        changed.push(file);
      }
    const pidFile = textOption(call.options, "pidFile");
    if (pidFile !== "") await reloadServer(resolve(pidFile));
    const told = pidFile === "" ? "; have nats-server read them again: nats-server --signal reload" : ", and was told";
    const what = changed.length === 0 ? "nothing has changed" : `wrote ${changed.join(" ")}`;
    call.output.answer({ changed, users: users.length, told: pidFile !== "" }, `${what}: ${users.length} users${told}`);
  },
};
