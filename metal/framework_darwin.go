package metal

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/ebitengine/purego"
	"github.com/ebitengine/purego/objc"
)

// framework is what loading Metal gives, once per process.
var framework = sync.OnceValues(loadFramework)

type metalFramework struct {
	systemDevice func() objc.ID // owned by the caller
	allDevices   func() objc.ID // an NSArray, owned by the caller
	pool         objc.Class
}

// The messages that are sent. They are registered when Metal is loaded, since
// registering takes a lock of the Objective-C runtime.
var (
	selNew, selRetain, selRelease, selDrain, selResponds objc.SEL
	selName, selUTF8String, selDescription               objc.SEL
	selCount, selObjectAtIndex                           objc.SEL
	selRegistryID, selMaxBufferLength, selUnified        objc.SEL
	selRecommended, selAllocated                         objc.SEL
	selBufferNoCopy, selBufferLength, selLen, selCont    objc.SEL
	selNewSet, selCapacity, selAdd, selRemoveAll         objc.SEL
	selCommit, selRequest, selEnd                        objc.SEL
)

var selectors = map[string]*objc.SEL{
	"new": &selNew, "retain": &selRetain, "release": &selRelease, "drain": &selDrain,
	"respondsToSelector:": &selResponds,

	"name": &selName, "UTF8String": &selUTF8String, "localizedDescription": &selDescription,
	"count": &selCount, "objectAtIndex:": &selObjectAtIndex,

	// id<MTLDevice>
	"registryID": &selRegistryID, "maxBufferLength": &selMaxBufferLength, "hasUnifiedMemory": &selUnified,
	"recommendedMaxWorkingSetSize": &selRecommended, "currentAllocatedSize": &selAllocated,
	"newBufferWithBytesNoCopy:length:options:deallocator:": &selBufferNoCopy,
	"newBufferWithLength:options:":                         &selBufferLength,
	"newResidencySetWithDescriptor:error:":                 &selNewSet,

	// id<MTLBuffer>
	"length": &selLen, "contents": &selCont,

	// MTLResidencySetDescriptor and id<MTLResidencySet>
	"setInitialCapacity:": &selCapacity, "addAllocation:": &selAdd, "removeAllAllocations": &selRemoveAll,
	"commit": &selCommit, "requestResidency": &selRequest, "endResidency": &selEnd,
}

// loadFramework loads Metal. CoreGraphics comes with it: without that
// MTLCreateSystemDefaultDevice returns nil in a command-line program.
func loadFramework() (*metalFramework, error) {
	var lib uintptr
	for _, path := range []string{
		"/System/Library/Frameworks/Foundation.framework/Foundation",
		"/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics",
		"/System/Library/Frameworks/Metal.framework/Metal",
	} {
		var err error
		if lib, err = purego.Dlopen(path, purego.RTLD_GLOBAL|purego.RTLD_NOW); err != nil {
			return nil, fmt.Errorf("metal: %w: %w", ErrNoDevice, err)
		}
	}
	f := &metalFramework{pool: objc.GetClass("NSAutoreleasePool")}
	for name, fn := range map[string]*func() objc.ID{
		"MTLCreateSystemDefaultDevice": &f.systemDevice,
		"MTLCopyAllDevices":            &f.allDevices,
	} {
		symbol, err := purego.Dlsym(lib, name)
		if err != nil {
			return nil, fmt.Errorf("metal: %w: %w", ErrNoDevice, err)
		}
		purego.RegisterFunc(fn, symbol)
	}
	for name, sel := range selectors {
		*sel = objc.RegisterName(name)
	}
	return f, nil
}

// pooled runs fn with an autorelease pool, which belongs to the thread.
func (f *metalFramework) pooled(fn func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pool := objc.ID(f.pool).Send(selNew)
	defer pool.Send(selDrain)
	fn()
}
