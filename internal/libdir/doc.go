// Package libdir lays libraries out as the directories that a mount shows.
//
// [Trees] has a tree for each model of one library. [OnDemand] adds the models that were looked up.
// [Forms] has the files of models of several libraries, under the names that another program expects.
// Each has a method Root, which returns the top directory as it is now.
//
// The package opens no model and serves no file: its caller tells it how to open a model.
package libdir
