"""One in-order queue: commands are recorded into a batch, submitted together, and waited for by a timeline semaphore."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable

from vtcore.errors import ProviderError
from vtcore.providers.gpu.device import FORKED
from vtcore.providers.vulkan.api import LOST, Handle, ffi, lib, name_of, told, vk
from vtcore.providers.vulkan.recording import Recording
from vtcore.undisturbed import Undisturbed

BATCH = 64  # commands after which a batch is submitted, so that the device begins before anybody waits
PATIENCE = 10**9  # nanoseconds of one wait: between two of them the process can be interrupted
TIMEOUT = vk.VK_TIMEOUT


class Queue:
    """Ticks count submissions: `tick` is the last one, `done` the last that is known to have ended."""

    def __init__(self, device: Handle, family: int, name: str) -> None:
        self.device, self.name = device, name
        self.tick = self.done = self.sealed = self.submissions = 0
        self._process, self.lost = os.getpid(), ""
        self.whole = Undisturbed()  # around what must not be left half done
        self.after: list[Callable[[], None]] = []  # called when submissions have ended
        self._open: Recording | None = None
        self._flying: deque[tuple[int, Handle]] = deque()
        self._idle: list[Handle] = []
        with told("making a queue"):
            self.queue = vk.vkGetDeviceQueue(device, family, 0)
            flags = vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT
            self.pool = vk.vkCreateCommandPool(device, vk.VkCommandPoolCreateInfo(queueFamilyIndex=family, flags=flags), None)
            kind = vk.VkSemaphoreTypeCreateInfo(semaphoreType=vk.VK_SEMAPHORE_TYPE_TIMELINE, initialValue=0)
            self.semaphore = vk.vkCreateSemaphore(device, vk.VkSemaphoreCreateInfo(pNext=kind), None)
        self._prepare()

    def _prepare(self) -> None:
        """What each submission and each wait hands over, made once."""
        self._signal, self._until = ffi.new("uint64_t[1]"), ffi.new("uint64_t[1]")
        self._commands, self._semaphores = ffi.new("VkCommandBuffer[2]"), ffi.new("VkSemaphore[1]", [self.semaphore])
        self._timeline, self._submit = ffi.new("VkTimelineSemaphoreSubmitInfo*"), ffi.new("VkSubmitInfo*")
        self._timeline.sType = vk.VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO
        self._timeline.signalSemaphoreValueCount, self._timeline.pSignalSemaphoreValues = 1, self._signal
        self._submit.sType, self._submit.pNext = vk.VK_STRUCTURE_TYPE_SUBMIT_INFO, self._timeline
        self._submit.signalSemaphoreCount, self._submit.pSignalSemaphores = 1, self._semaphores
        self._submit.pCommandBuffers = self._commands
        self._wait = ffi.new("VkSemaphoreWaitInfo*")
        self._wait.sType, self._wait.semaphoreCount = vk.VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, 1
        self._wait.pSemaphores, self._wait.pValues = self._semaphores, self._until

    @property
    def upcoming(self) -> int:
        """The tick at whose end everything is done that was recorded so far."""
        return self.tick + (self._open is not None)

    def recording(self) -> Recording:
        """The batch that commands go to."""
        if self._open is not None and self._open.commands >= BATCH:
            self.flush()
        if self._open is None:
            self.alive()
            self._open = Recording(self.command(), once=True)
        return self._open

    def command(self) -> Handle:
        """A command buffer: one that has ended, or a new one."""
        if self._idle:
            return self._idle.pop()
        wanted = vk.VkCommandBufferAllocateInfo(commandPool=self.pool, level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY, commandBufferCount=1)
        with told("making a command buffer"):
            return vk.vkAllocateCommandBuffers(self.device, wanted)[0]

    def retire(self, command: Handle) -> None:
        """A command buffer that nobody will submit any more: used again once it has ended."""
        self._flying.append((self.upcoming, command))

    def flush(self, then: Handle = None) -> None:
        """Submit the batch, and `then`, a recorded command buffer. Ctrl-C waits meanwhile: what is submitted is counted."""
        self.alive()
        if self._open is not None or then is not None:
            with self.whole:
                self._submitted(then)

    def _submitted(self, then: Handle) -> None:
        batch, count = self._open, 0
        if batch is not None:
            batch.end()
            self._commands[0], count = batch.command, 1
            self._flying.append((self.tick + 1, batch.command))
        if then is not None:
            self._commands[count], count, self.sealed = then, count + 1, self.tick + 1
        self._submit.commandBufferCount, self._signal[0] = count, self.tick + 1
        if not (code := lib.vkQueueSubmit(self.queue, 1, self._submit, ffi.NULL)):
            self.tick, self.submissions = self.tick + 1, self.submissions + 1
        self._open = None  # last: what the collector drops meanwhile may be a part of this batch
        self._good(code, "submitting")

    def wait(self) -> None:
        """Until all that was recorded has ended."""
        self.flush()
        self._until[0] = self.tick
        while self.done < self.tick:
            code = lib.vkWaitSemaphores(self.device, self._wait, PATIENCE)
            if code != TIMEOUT:
                self._good(code, "waiting")
                self._ended(self.tick)

    def ended(self, tick: int) -> bool:
        """Whether a submission has ended."""
        if tick > self.done and tick <= self.tick:
            self._good(lib.vkGetSemaphoreCounterValue(self.device, self.semaphore, self._until), "asking")
            self._ended(self._until[0])
        return tick <= self.done

    def _ended(self, tick: int) -> None:
        self.done = tick
        while self._flying and self._flying[0][0] <= tick:
            self._idle.append(self._flying.popleft()[1])
        for look in self.after:
            look()

    def _good(self, code: int, doing: str) -> None:
        if code == LOST:
            self.lost = f"vulkan: the device {self.name} was lost while {doing}; what it held is gone: load the model again"
            self._open = None
        if code:
            self.alive()
            raise ProviderError(f"vulkan: {doing} failed on {self.name}: {name_of(code)}")

    def alive(self) -> None:
        """ProviderError once the device was lost or closed: what its buffers held is gone. And in a process that was forked."""
        if self.lost or self.inherited:
            raise ProviderError(self.lost or f"vulkan: the device {self.name} {FORKED}")

    @property
    def inherited(self) -> bool:
        """Whether another process made it, of which this one is a fork."""
        return self._process != os.getpid()

    def close(self) -> None:
        """Wait as long as the device lives, and give back the objects."""
        lib.vkDeviceWaitIdle(self.device)
        self.done, self._open = max(self.done, self.tick + 1), None
        vk.vkDestroySemaphore(self.device, self.semaphore, None)
        vk.vkDestroyCommandPool(self.device, self.pool, None)
        self.lost = self.lost or f"vulkan: the device {self.name} was closed"
