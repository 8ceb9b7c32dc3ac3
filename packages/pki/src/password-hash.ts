import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";

/** scrypt with N = 2^15: 32 MiB and about 100 ms per guess. */
const COST_LOG2 = 15;
const BLOCK_SIZE = 8;
const KEY_BYTES = 32;
const PATTERN = /^\$scrypt\$ln=(1[4-7]),r=8,p=1\$([A-Za-z0-9+/]{22})\$([A-Za-z0-9+/]{43})$/;

export function isPasswordHash(text: string): boolean {
  return PATTERN.test(text);
}

/** Returns a hash for the config: it verifies a password but does not reveal it. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16);
  const key = await derive(password, salt, COST_LOG2);
  return `$scrypt$ln=${COST_LOG2},r=${BLOCK_SIZE},p=1$${unpadded(salt)}$${unpadded(key)}`;
}

/** Returns true when the hash was made from this password. */
export async function isPasswordOf(hash: string, password: string): Promise<boolean> {
  const [, costLog2, salt = "", key = ""] = PATTERN.exec(hash) ?? [];
  if (costLog2 === undefined) return false;
  const derived = await derive(password, Buffer.from(salt, "base64"), Number(costLog2));
  return timingSafeEqual(derived, Buffer.from(key, "base64"));
}

function derive(password: string, salt: Buffer, costLog2: number): Promise<Buffer> {
  const N = 2 ** costLog2;
  const maxmem = 256 * N * BLOCK_SIZE;
  return new Promise((resolve, reject) =>
    scrypt(password, salt, KEY_BYTES, { N, r: BLOCK_SIZE, p: 1, maxmem }, (error, key) =>
      error ? reject(error) : resolve(key),
    ),
  );
}

const unpadded = (bytes: Buffer): string => bytes.toString("base64").replace(/=+$/, "");
