import { text } from "node:stream/consumers";
import { hashPassword } from "@diskmesh/pki/password-hash";

/** Reads a password from standard input, where no list of processes shows it, and prints what the config takes. */
const password = (await text(process.stdin)).replace(/\r?\n$/, "");
if (password === "") {
  process.stderr.write("give the password on standard input\n");
  process.exit(1);
}
process.stdout.write(`${await hashPassword(password)}\n`);
