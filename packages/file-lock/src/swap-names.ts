import { native } from "./native.js";

/**
 * Exchanges the names of two files or folders of one file system in one step, so that at no moment either is missing.
 * Fails with EINVAL on a file system that cannot (NFS), or with ENOTSUP on a platform that cannot.
 */
export async function swapNames(one: string, other: string): Promise<void> {
  try {
    await native().swap(one, other);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "MODULE_NOT_FOUND") throw error;
    throw Object.assign(new Error("names cannot be exchanged on this platform", { cause: error }), { code: "ENOTSUP" });
  }
}
