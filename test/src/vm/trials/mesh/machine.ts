import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { call } from "../engine-drives.js";

const MACHINE = "/machine";
const LAYER = "/layer";

/** Programs and repository of the machine that started this one, below a layer in memory that takes what is written. */
export async function enterMachine(): Promise<string> {
  if (process.pid !== 1) return "/";
  if (existsSync(MACHINE)) return MACHINE;
  for (const folder of ["/lower", LAYER, MACHINE]) mkdirSync(folder);
  await call("mount", "-t", "virtiofs", "-o", "ro", "machine", "/lower");
  await call("mount", "-t", "tmpfs", "tmpfs", LAYER);
  for (const name of ["upper", "work"]) mkdirSync(join(LAYER, name));
  const layers = `lowerdir=/lower,upperdir=${LAYER}/upper,workdir=${LAYER}/work`;
  await call("mount", "-t", "overlay", "-o", layers, "overlay", MACHINE);
  for (const folder of ["proc", "sys", "dev"]) await call("mount", "--bind", `/${folder}`, join(MACHINE, folder));
  for (const folder of ["tmp", "run"]) await call("mount", "-t", "tmpfs", "tmpfs", join(MACHINE, folder));
  await call("chroot", MACHINE, "ip", "link", "set", "lo", "up");
  return MACHINE;
}

/** Runs a program of the repository there, and resolves to its exit code and output. */
export async function runInMachine(...args: string[]): Promise<readonly [number | null, string]> {
  const { DISKMESH_REPOSITORY = "", DISKMESH_PATH = "" } = process.env;
  const [repository, path] = [decodeURI(DISKMESH_REPOSITORY), decodeURI(DISKMESH_PATH)];
  const settings = { PATH: path, HOME: "/root", DISKMESH_ENGINE: "kernel", DISKMESH_BUNDLED: "true", CI: "true" };
  const env = Object.entries(settings).map(([name, value]) => `${name}=${value}`);
  const program = ["env", "--ignore-environment", "--chdir", repository, ...env, "node", ...args];
  const child = spawn("chroot", [await enterMachine(), ...program], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text) => {
      output += text;
      process.stdout.write(text);
    });
  const [code] = await once(child, "close");
  return [code, output];
}
