// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

import type { ApprovalJson } from "./gen/toolserver/v1/approval_pb";
import { Store } from "./store";
import { approvalText } from "./words";

// alarms is by what people want to be told that something waits.
const kept = "toolserver-alarms";
export const alarms = new Store<{ sound: boolean; desktop: boolean }>(JSON.parse(localStorage.getItem(kept) ?? '{"sound":false,"desktop":false}'));

const set = alarms.set.bind(alarms);
alarms.set = (value) => {
  localStorage.setItem(kept, JSON.stringify(value));
  set(value);
};

// announce tells of something new that waits, as was chosen.
export function announce(a: ApprovalJson) {
  if (alarms.value.sound) beep();
  if (alarms.value.desktop && document.hidden) {
    const note = new Notification(`${a.tool} waits for an answer`, { body: approvalText(a), tag: a.approvalId ?? "" });
    note.onclick = () => window.focus();
  }
}

function beep() {
  const sound = new AudioContext();
  const tone = sound.createOscillator();
  const volume = sound.createGain();
  volume.gain.setValueAtTime(0.08, sound.currentTime);
  volume.gain.exponentialRampToValueAtTime(0.0001, sound.currentTime + 0.25);
  tone.frequency.value = 660;
  tone.connect(volume).connect(sound.destination);
  tone.start();
  tone.stop(sound.currentTime + 0.25);
  tone.onended = () => sound.close();
}
