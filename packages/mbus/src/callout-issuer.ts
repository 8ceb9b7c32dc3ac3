import { mkdir, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { replaceFile } from "@diskmesh/atomic-file";
import { InvalidArgumentError, quoted } from "@diskmesh/domain";
import { createAccount, fromSeed, type KeyPair } from "nkeys.js";

/** Reads the key that signs answers to nats-server; with `makes`, creates one when the file does not exist. */
export async function openCalloutIssuer(seedFile: string, { makes }: { readonly makes: boolean }): Promise<KeyPair> {
  const seed = await readFile(seedFile, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw new InvalidArgumentError(`cannot read ${quoted(seedFile)}: ${error.message}`);
  });
  if (seed !== undefined) return read(seed, seedFile);
  if (!makes)
    throw new InvalidArgumentError(`${quoted(seedFile)} is missing: copy the seed file that all directors share`);
  const made = createAccount();
  await mkdir(dirname(seedFile), { recursive: true, mode: 0o700 });
  await replaceFile(seedFile, `${Buffer.from(made.getSeed()).toString("latin1")}\n`);
  return made;
}

function read(seed: string, seedFile: string): KeyPair {
  try {
    const key = fromSeed(Buffer.from(seed.trim(), "latin1"));
    if (key.getPublicKey().startsWith("A")) return key;
  } catch {
    // The cause is dropped, because its message may contain a part of the seed.
  }
  throw new InvalidArgumentError(
    `${quoted(seedFile)} is not the seed of an account (SA...), as \`nk -gen account\` writes it`,
  );
}
