/**
 * A process for tests: takes a folder's lock, starts a program that outlives it, reports that, and waits to be killed.
 */
import { spawn } from "node:child_process";
import { FolderLock } from "../folder-lock.js";

await FolderLock.take(process.argv[2] as string);
const child = spawn("sleep", ["60"], { stdio: "ignore", detached: true });
process.stdout.write(`${child.pid}\n`);
process.stdin.resume();
