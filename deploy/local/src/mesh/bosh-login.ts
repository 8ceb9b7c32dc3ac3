import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { replaceFile } from "@diskmesh/atomic-file";
import { hashPassword, isPasswordHash } from "@diskmesh/pki/password-hash";
import type { MeshLayout } from "./layout.js";

/** User name of the bosh CLI. */
export const BOSH_USER = "admin";

interface BoshLogin {
  readonly password: string;
  readonly passwordHash: string;
}

/** Returns the bosh CLI's login for this state folder. The first start creates it. */
export async function boshLogin({ boshLoginFile }: MeshLayout): Promise<BoshLogin> {
  const text = await readFile(boshLoginFile, "utf8").catch(() => "{}");
  const { password, passwordHash } = JSON.parse(text) as Partial<BoshLogin>;
  if (password !== undefined && isPasswordHash(passwordHash ?? ""))
    return { password, passwordHash: passwordHash ?? "" };
  const made = randomBytes(12).toString("hex");
  const login = { password: made, passwordHash: await hashPassword(made) };
  await replaceFile(boshLoginFile, `${JSON.stringify(login)}\n`, { mode: 0o600 });
  return login;
}
