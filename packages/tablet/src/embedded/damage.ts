import { InvalidStateError } from "@diskmesh/domain";

/** Called with each damage that a reader finds. Throws it to end the reading; returns to read what lies beside it. */
export type OnDamage = (damage: InvalidStateError) => void;

/** Refuses damage, like every start. */
export const refuseDamage: OnDamage = (damage) => {
  throw damage;
};

/** Does work; resolves with undefined when it finds damage and `onDamage` returns. Other errors are thrown. */
export async function collecting<T>(onDamage: OnDamage, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof InvalidStateError)) throw error;
    onDamage(error);
    return undefined;
  }
}
