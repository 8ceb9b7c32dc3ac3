import { text } from "node:stream/consumers";
import { hashPassword } from "@diskmesh/pki/password-hash";

/** Reads a password from standard input, because process lists show arguments, and prints the hash for the config. */
const password = (await text(process.stdin)).replace(/\r?\n$/, "");
if (password === "") {
  process.stderr.write("give the password on standard input\n");
  process.exit(1);
}
process.stdout.write(`${await hashPassword(password)}\n`);
