/**
 * What stands for `systemctl` and `scp` on a machine of a test: asks the test to do it, over the socket of the machine,
 * prints what that answers, and ends as it says.
 */
import { createConnection } from "node:net";
import { text } from "node:stream/consumers";

const [socketPath = "", program, ...args] = process.argv.slice(2);
const socket = createConnection(socketPath);
socket.end(`${JSON.stringify({ program, args, folder: process.cwd() })}\n`);
const { code, output } = JSON.parse(await text(socket)) as { code: number; output: string };
process.stdout.write(output);
process.exitCode = code;
