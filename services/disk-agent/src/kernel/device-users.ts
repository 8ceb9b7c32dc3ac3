import { readdir, readFile, readlink } from "node:fs/promises";
import { basename } from "node:path";
import { messageOf, quoted } from "@diskmesh/domain";

/** Users that a message names. */
const MAX_NAMED = 4;

/**
 * Describes who has a block device mounted or open, as far as /proc shows it: also mounts of other mount namespaces, but
 * neither processes of other machines' PID namespaces nor the kernel's own users.
 */
export async function usersText(device: string): Promise<string> {
  try {
    const users = await findUsers(device);
    if (users.length === 0) return "in use by something that /proc does not show";
    const more = users.length > MAX_NAMED ? `, and ${users.length - MAX_NAMED} more` : "";
    return `${users.slice(0, MAX_NAMED).join(", ")}${more}`;
  } catch (error) {
    return `in use; its users cannot be found: ${messageOf(error)}`;
  }
}

async function findUsers(device: string): Promise<string[]> {
  const number = (await readFile(`/sys/block/${basename(device)}/dev`, "utf8")).trim();
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const holders = await readdir(`/sys/block/${basename(device)}/holders`).catch(() => []);
  const users = holders.map((name) => `held by ${quoted(name)}`);
  const namespaces = new Set<string>();
  // One after another, because a busy machine has thousands of processes.
  for (const pid of pids) {
    const found = [...(await mountOf(pid, device, number, namespaces)), ...(await openOf(pid, device))];
    if (found.length > 0) users.push(`${found.join(" and ")} process ${pid} (${quoted(await programOf(pid))})`);
  }
  return users;
}

/** Returns where the process has the device mounted. Looks at each mount namespace once. */
async function mountOf(pid: string, device: string, number: string, seen: Set<string>): Promise<string[]> {
  // The kernel's own threads, which nobody can end, have no program.
  if ((await readlink(`/proc/${pid}/exe`).catch(() => "")) === "") return [];
  const namespace = await readlink(`/proc/${pid}/ns/mnt`).catch(() => "");
  if (namespace === "" || seen.has(namespace)) return [];
  seen.add(namespace);
  const mounts = (await readFile(`/proc/${pid}/mountinfo`, "utf8").catch(() => "")).split("\n");
  const mount = mounts.map((line) => line.split(" ")).find((fields) => fields[2] === number || fields.includes(device));
  return mount === undefined ? [] : [`mounted at ${quoted(mount[4] ?? "")} in the mount namespace of`];
}

async function openOf(pid: string, device: string): Promise<string[]> {
  const folder = `/proc/${pid}/fd`;
  for (const name of await readdir(folder).catch(() => []))
    if ((await readlink(`${folder}/${name}`).catch(() => "")) === device) return ["open in"];
  return [];
}

async function programOf(pid: string): Promise<string> {
  return (await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "")).trim();
}
